"""What tests of other frameworks share."""

import jax
import pytest

import bellhop

FORMS = {"qjit": bellhop.qjit, "jit": jax.jit, "eager": lambda function: function}


@pytest.fixture(params=FORMS.values(), ids=FORMS)
def form(request):
    return request.param
