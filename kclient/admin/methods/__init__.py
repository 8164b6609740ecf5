"""The methods of `Admin` and `AsyncAdmin`, by what they administer; each blocking one beside its async one."""
