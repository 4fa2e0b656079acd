// Publish two events: the headers as text, then as byte arrays. Arguments: the broker's URL.
import amqp from "amqplib";

const connection = await amqp.connect(process.argv[2]);
const channel = await connection.createConfirmChannel();
const forms = {
  text: { tenant: "acme", region: "eu" },
  bytes: { tenant: Buffer.from("acme"), region: Buffer.from("eu") },
};
for (const [form, headers] of Object.entries(forms)) {
  const body = Buffer.from(JSON.stringify({ client: "node", form }));
  const properties = { headers, contentType: "application/json", persistent: true, messageId: `node_${form}` };
  channel.publish("leveret.events", "order.created", body, { ...properties, mandatory: true });
}
await channel.waitForConfirms();
await connection.close();
