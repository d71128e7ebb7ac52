"""A validating webhook of this process: an HTTPS server that denies every pod it is asked about."""

from __future__ import annotations

import json
import ssl
import threading
from base64 import b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from sandbox.api import Document
from sandbox.cluster import Sandbox
from sandbox.ports import HOST

DENIAL = "no cost centre is named: set the label cost-centre"


class Denier(BaseHTTPRequestHandler):
    """Answers an AdmissionReview, https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/."""

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status = {"code": 403, "message": DENIAL}
        response = {"uid": review["request"]["uid"], "allowed": False, "status": status}
        body = json.dumps({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class DenyingWebhook:
    """The server, with a certificate of the sandbox's authority, while the block lasts."""

    def __init__(self, sandbox: Sandbox) -> None:
        credentials = sandbox.site.credentials
        pair = credentials.cluster.issue(
            credentials.pair("webhook"), common_name="webhook", addresses=[HOST], server=True
        )
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pair.certificate, pair.key)
        self._server = ThreadingHTTPServer((HOST, 0), Denier)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, name="webhook", daemon=True)

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self._server.server_port}/validate"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def webhook_configuration(sandbox: Sandbox, name: str, url: str, label: tuple[str, str]) -> Document:
    """Give the ValidatingWebhookConfiguration by which this URL is asked about new pods that carry a label."""
    authority = b64encode(sandbox.site.credentials.cluster.certificate.read_bytes()).decode()
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    webhook = {
        "name": name,
        "clientConfig": {"url": url, "caBundle": authority},
        "rules": [rule],
        "objectSelector": {"matchLabels": dict([label])},
        "failurePolicy": "Fail",
        "timeoutSeconds": 2,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [webhook],
    }


def policy_documents(name: str, label: tuple[str, str], message: str) -> list[Document]:
    """Give the ValidatingAdmissionPolicy that no pod with a label passes, and its binding."""
    version = "admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule], "objectSelector": {"matchLabels": dict([label])}},
        "validations": [{"expression": "false", "message": message}],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    return [
        {"apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": policy},
        {
            "apiVersion": version,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": binding,
        },
    ]
