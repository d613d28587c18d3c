"""A Holdfast server for the tests of API clients."""

from .server import Clock, Fault, HoldfastError, HoldfastServer, Response

__all__ = ["Clock", "Fault", "HoldfastError", "HoldfastServer", "Response"]
