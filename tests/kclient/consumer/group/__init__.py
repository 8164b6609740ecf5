"""The group of a consumer: tables, bytes, the member and the owner's part."""
