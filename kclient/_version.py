"""The version of the package, for the modules that tell it to brokers: they must not import the package's own names."""

__version__ = "0.1.0"
