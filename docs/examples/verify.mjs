// Verify one captured request; body is the raw text or Buffer, never re-serialised JSON.
import { Webhook } from "standardwebhooks";

export function verified(secret, headers, body) {
  return new Webhook(secret).verify(body, headers); // throws when it does not verify
}
