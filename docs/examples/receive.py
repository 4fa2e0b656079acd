"""A receiver on port 9000: verifies each webhook and prints it. Give it the secret in WEBHOOK_SECRET."""

import os
from http.server import BaseHTTPRequestHandler, HTTPServer

from standardwebhooks import Webhook, WebhookVerificationError

webhook = Webhook(os.environ["WEBHOOK_SECRET"])


class Handler(BaseHTTPRequestHandler):
    """Answers a valid webhook with 204 and any other with 401."""

    def do_POST(self) -> None:
        """Take one webhook."""
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            event = webhook.verify(body, dict(self.headers))
            print(self.headers["webhook-id"], event["type"], event["data"], flush=True)
            self.send_response(204)
        except WebhookVerificationError as error:
            print("refused:", error, flush=True)
            self.send_response(401)
        self.end_headers()


HTTPServer(("127.0.0.1", 9000), Handler).serve_forever()
