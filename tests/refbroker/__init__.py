"""The broker without sockets: settings, metadata, handlers."""
