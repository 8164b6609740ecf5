"""Tests of kclient.records; nearly all of them run against both twins."""
