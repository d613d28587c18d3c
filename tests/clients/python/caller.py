"""Uses the client that openapi-python-client generated: that it imports and builds a request is the test."""

from python_client import AuthenticatedClient
from python_client.api.projects import get_project

client = AuthenticatedClient(base_url="http://127.0.0.1", token="token")
kwargs = get_project._get_kwargs(id="group/project")
assert kwargs["url"].endswith("/projects/group%2Fproject"), kwargs
assert client.get_httpx_client() is not None
print("openapi-python-client encodes project paths")
