"""Prepares the data of samples that the demo does not have: images of the container registry, a signed commit, deliveries of
webhooks, and codes of an authenticator app.

Each function takes the base URL, the token of the administrator, the password of each user, and an empty directory. It
returns the variables that the sample reads in addition.
"""

import base64
import hashlib
import hmac
import http.server
import json
import os
import struct
import subprocess
import threading
import time
import urllib.request
from urllib.parse import urlsplit

PROJECT = "engines/difference"
PROJECT_PATH = "/projects/engines%2Fdifference"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def send(method, url, body=None, **headers):
    """Sends a request with a body of bytes. Returns the headers and the body of the response."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, body, names, method=method)
    with urllib.request.urlopen(request, timeout=60) as response:
        return response.headers, response.read()


def call(base, token, method, path, body=None, **headers):
    """Sends a request of the API, and returns the body of the response."""
    content = None if body is None else json.dumps(body).encode()
    _, text = send(method, f"{base}/api/v4{path}", content, Private_Token=token, Content_Type="application/json", **headers)
    return json.loads(text) if text else None


def push_image(base, token, password, folder):
    """Pushes an image with the tag `latest`."""
    name = f"{PROJECT}/web"
    login = base64.b64encode(f"root:{token}".encode()).decode()
    scope = f"service=container_registry&scope=repository:{name}:pull,push"
    _, text = send("GET", f"{base}/jwt/auth?{scope}", Authorization=f"Basic {login}")
    bearer = f"Bearer {json.loads(text)['token']}"

    def upload(content):
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        url = f"{base}/v2/{name}/blobs/uploads/?digest={digest}"
        send("POST", url, content, Authorization=bearer, Content_Type="application/octet-stream")
        return {"digest": digest, "size": len(content)}

    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **upload(b"{}")},
        "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar", **upload(b"An engine.")}],
    }
    url = f"{base}/v2/{name}/manifests/latest"
    send("PUT", url, json.dumps(manifest).encode(), Authorization=bearer, Content_Type=MANIFEST)
    return {}


def push_signed_commit(base, token, password, folder):
    """Pushes a commit with an SSH signature to the branch `main`."""
    key, clone = os.path.join(folder, "key"), os.path.join(folder, "clone")
    url = urlsplit(base)
    remote = f"{url.scheme}://root:{token}@{url.netloc}/{PROJECT}.git"
    settings = {"gpg.format": "ssh", "user.signingKey": key, "user.name": "Ada", "user.email": "ada@example.com"}
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]

    def run(*command):
        subprocess.run(command, check=True, capture_output=True, timeout=60)

    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
    run("git", "clone", "--quiet", remote, clone)
    run("git", "-C", clone, *options, "commit", "--quiet", "--gpg-sign", "--allow-empty", "--message", "Sign the engine")
    run("git", "-C", clone, "push", "--quiet", "origin", "HEAD:main")
    return {}


def deliver_webhook(base, token, password, folder):
    """Sends an event to a local receiver, which still accepts the event when it is sent again."""

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    hook = f"{PROJECT_PATH}/hooks/1"
    call(base, token, "PUT", hook, {"url": f"http://127.0.0.1:{receiver.server_port}/"})
    call(base, token, "POST", f"{hook}/test/push_events")
    end = time.monotonic() + 30
    while not call(base, token, "GET", f"{hook}/events"):
        assert time.monotonic() < end, "the event was not delivered"
        time.sleep(0.05)
    return {}


def code_of(secret):
    """Returns the current code of a secret, as RFC 6238 defines it."""
    digest = hmac.digest(base64.b32decode(secret), struct.pack(">Q", int(time.time()) // 30), "sha1")
    offset = digest[-1] & 15
    return f"{(struct.unpack_from('>I', digest, offset)[0] & 0x7FFFFFFF) % 10**6:06}"


def start_two_factor(base, token, password, folder, **headers):
    """Starts the setup of two-factor authentication."""
    setup = call(base, token, "POST", "/user/two_factor", {"current_password": password}, **headers)
    return {"CODE": code_of(setup["secret"])}


def enable_two_factor(base, token, password, folder, **headers):
    """Enables two-factor authentication. The code is a recovery code, because codes of the app can be used once."""
    started = start_two_factor(base, token, password, folder, **headers)
    confirmed = call(base, token, "POST", "/user/two_factor/confirm", {"code": started["CODE"]}, **headers)
    return {"CODE": confirmed["recovery_codes"][0]}


def enable_two_factor_of_user(base, token, password, folder):
    """Enables two-factor authentication of the user of the sample."""
    return enable_two_factor(base, token, password, folder, Sudo="2")


PREPARATIONS = {
    "get_commit_signature": push_signed_commit,
    "get_registry_repository": push_image,
    "list_registry_tags": push_image,
    "get_registry_tag": push_image,
    "delete_registry_repository": push_image,
    "delete_registry_tags": push_image,
    "delete_registry_tag": push_image,
    "get_project_hook_delivery": deliver_webhook,
    "resend_project_hook_delivery": deliver_webhook,
    "confirm_two_factor": start_two_factor,
    "create_recovery_codes": enable_two_factor,
    "disable_two_factor": enable_two_factor,
    "disable_user_two_factor": enable_two_factor_of_user,
}
