"""Small servers on third-party SDKs, for their environments; not imported here."""
