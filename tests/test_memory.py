"""Freed memory goes back to the system."""

import sys

import jax
import pytest

from fkpinn import _memory


@pytest.fixture
def listeners(monkeypatch):
    found = []
    monkeypatch.setattr(jax.monitoring, "register_event_duration_secs_listener", found.append)
    _memory.give_back_freed_memory.cache_clear()
    yield found
    _memory.give_back_freed_memory.cache_clear()


def test_after_long_compiling_memory_is_given_back_once(listeners, monkeypatch):
    trimmed = []
    monkeypatch.setattr(_memory, "_trim", lambda: trimmed.append)
    for _ in range(2):
        _memory.give_back_freed_memory()
    [told] = listeners
    told("/jax/core/compile/backend_compile_duration", 0.01, fun_name="small")
    told("/jax/compilation_cache/compile_time_saved_sec", 10.0)
    assert trimmed == []
    told("/jax/core/compile/backend_compile_duration", 3.0)
    assert trimmed == [0]


def test_jax_still_tells_of_compiling_under_that_name():
    names = []
    told = lambda event, seconds, **_: names.append(event)
    jax.monitoring.register_event_duration_secs_listener(told)
    try:
        jax.jit(lambda x: x * 3.25 + len(names))(1.0)
    finally:
        jax.monitoring.unregister_event_duration_listener(told)
    assert _memory._COMPILED in names


def test_without_glibc_nothing_is_done(listeners, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    _memory.give_back_freed_memory()
    assert listeners == []


@pytest.mark.skipif(_memory._trim() is None, reason="needs glibc")
def test_glibc_has_it():
    trim = _memory._trim()
    assert trim is not None and trim(0) in (0, 1)
