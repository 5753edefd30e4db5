"""What tests of all rooms of the frontend share."""

import pytest
from tests.frontend.forms import FORMS

from bellhop.compiler.compile_timing import observers


@pytest.fixture(params=FORMS.values(), ids=FORMS)
def form(request):
    """Make a program of a function, or leave it as it is."""
    return request.param


@pytest.fixture(autouse=True)
def _no_profile_is_left_open():
    yield
    assert observers == []
