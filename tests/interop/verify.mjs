// Reads [{secret, headers, body}] (body in base64) from stdin; prints one result per case:
// "ok", or the verifier's error message.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const require = createRequire(join(process.cwd(), "node_modules", "x.js"));
const { Webhook } = require("standardwebhooks");

const results = JSON.parse(readFileSync(0, "utf8")).map(({ secret, headers, body }) => {
  try {
    new Webhook(secret).verify(Buffer.from(body, "base64"), headers, { jsonParse: false });
    return "ok";
  } catch (error) {
    return String(error.message);
  }
});
console.log(JSON.stringify(results));
