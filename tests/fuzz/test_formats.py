"""Changed files are refused with a message that names them, or what they give is sound."""

import pytest
from fuzz.formats import FORMATS, attack

CASES = 40
MANY = 10_000


@pytest.mark.parametrize("format_", FORMATS, ids=lambda f: f.name)
def test_changed_files_are_refused_or_sound(format_, tmp_path):
    count = attack(format_, tmp_path, range(CASES))
    assert count["refused"] > CASES // 4


@pytest.mark.slow
@pytest.mark.parametrize("format_", FORMATS, ids=lambda f: f.name)
def test_many_changed_files_are_refused_or_sound(format_, tmp_path):
    count = attack(format_, tmp_path, range(CASES, CASES + MANY))
    assert count["refused"] > MANY // 4
