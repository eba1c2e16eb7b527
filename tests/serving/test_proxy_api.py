"""Whatever the documented routes are sent, they answer as documented."""

import httpx
import pytest
from hypothesis import HealthCheck, settings
from schemathesis import checks, openapi
from schemathesis.specs.openapi import checks as openapi_checks

from harness_core.serving.openapi import openapi_document
from tests.serving.conftest import Proxied, proxied

schema = openapi.from_dict(openapi_document(has_keys=False))
CHECKS = [
    checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_schema_conformance,
]


@pytest.fixture(scope="module")
def address():
    with proxied(mode="rerank", k=2, limits={"requests_per_minute": 1e9}) as proxy:
        yield proxy.url


@schema.parametrize()
@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_every_route_keeps_to_its_description(case, address: str):
    case.call_and_validate(base_url=address, checks=CHECKS)


def test_the_document_is_served_and_names_every_route(proxy: Proxied):
    served = httpx.get(f"{proxy.url}/openapi.json").json()
    assert served == openapi_document(has_keys=False)
    assert "/v1/harness/outcomes" in served["paths"]


def test_with_keys_the_document_says_where_they_are_needed():
    paths = openapi_document(has_keys=True)["paths"]
    assert paths["/v1/models"]["get"]["security"]
    assert "security" not in paths["/healthz"]["get"]
