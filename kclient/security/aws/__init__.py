"""AWS_MSK_IAM: logging in at Amazon MSK with credentials of AWS.

`signature` has the signed message, `credentials` where the credentials and the region come from, `login` the login of a
client. Elsewhere: the tokens of Amazon's signer for OAUTHBEARER (`kclient.security.oauth`).
"""
