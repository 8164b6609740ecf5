"""The broker over sockets, byte by byte."""
