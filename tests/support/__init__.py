"""Helpers shared by several folders of tests. This package imports no tests."""
