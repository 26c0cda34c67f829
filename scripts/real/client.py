"""A plain HTTP client: one connection, kept, opened again when it broke. In a secure world it speaks TLS and shows a token.

Always: no retry of its own; a request that got no answer raises `Unreachable`. Not here: retries with
a request id (load.py).
"""
import http.client
import json
import socket


class Unreachable(Exception):
    """No answer: refused, reset or too late. What became of a write is unknown."""


class Client:
    def __init__(self, address, timeout=5.0, tls=None, token=None):
        """`tls`: an ssl.SSLContext that knows the world's authority."""
        self.address, self.timeout, self.connection, self.tls = address, timeout, None, tls
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def request(self, method, path, body=None):
        """(status, body) of one request."""
        fresh = self.connection is None
        if fresh:
            host, port = self.address.rsplit(":", 1)
            if self.tls:
                self.connection = http.client.HTTPSConnection(host, int(port), timeout=self.timeout, context=self.tls)
            else:
                self.connection = http.client.HTTPConnection(host, int(port), timeout=self.timeout)
        try:
            self.connection.request(method, path, body, self.headers)
            answer = self.connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException, socket.timeout) as error:
            self.close()
            raise Unreachable(f"{self.address}: {type(error).__name__} {error}") from None

    def get(self, path):
        return self.request("GET", path)

    def action(self, fields):
        """(status, answer) of an action."""
        status, body = self.request("POST", "/", json.dumps(fields).encode())
        try:
            return status, json.loads(body)
        except ValueError:
            return status, {"ok": False, "error": {"code": "NotJson", "message": body[:200].decode(errors="replace")}}

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None
