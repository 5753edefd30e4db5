"""What tests of all rooms of the frontend share."""

import pytest
from tests.frontend.forms import FORMS


@pytest.fixture(params=FORMS.values(), ids=FORMS)
def form(request):
    """Make a program of a function, or leave it as it is."""
    return request.param
