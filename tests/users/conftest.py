"""Users cache from their second assignment on, whether that pays or not."""

import pytest

from peerclust.users import users


@pytest.fixture(scope="package", autouse=True)
def cache_at_once():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(users, "caching_pays", lambda data: True)
        yield
