"""The page about users, roles and tokens. Needs a world that asks who a client is (`hive dev --secure`)."""

import re


def names():
    """Every call's name, from the one table that has them; `CreateRoot` is a node's own."""
    table = re.search(r"^calls! \{(.*?)^\}", open("crates/base-types/src/access.rs").read(), re.S | re.M).group(1)
    return set(re.findall(r"^    (\w+) (?:read|write);", table, re.M)) - {"CreateRoot"}


def write(guide):
    guide.page("access.md", "Users, roles and tokens", """
[The guide](../access.md) says what users, roles and tokens are, and how rules and resources are written. These requests were sent by `root` to
a world of `hive dev --secure`. With curl, such a request is `curl --cacert "$HIVE_CA" -H "Authorization: Bearer $(cat "$HIVE_TOKEN_FILE")"`.
""")
    tenants(guide)
    roles(guide)
    users(guide)
    groups(guide)
    tokens(guide)
    s3_keys(guide)
    sealed_keys(guide)
    removals(guide)


def tenants(guide):
    guide.say("## CreateTenant\n\nMakes a tenant. `owns` bounds what its users can reach, whatever their roles say.")
    guide.show({"action": "CreateTenant", "tenant": "shop", "owns": ["kv/shop-*", "bucket/shop-*"]})
    guide.show({"action": "CreateTenant", "tenant": "shop", "owns": ["kv/shop-*"]}, 409)
    guide.say("## ListTenants\n\nLists tenants by name.")
    guide.show({"action": "ListTenants"})


def roles(guide):
    guide.say("## CreateRole\n\nMakes a role. With `replace` it replaces the rules of a role that exists. A retry with the same "
              "`request_id` takes no later change\nback: a role remembers the last 16 requests that replaced it. "
              "You need every rule that the role did not have before. `\"grantable\": true` lets those who may\n"
              "`secure` users [give the role](../access.md#who-may-give-what) without having it; a replacement without it takes that away.")
    rules = [{"verbs": "write", "on": "kv/default/new/"}, {"verbs": "read,list", "on": "kv/default"}]
    guide.show({"action": "CreateRole", "role": "uploads", "rules": rules})
    guide.show({"action": "CreateRole", "role": "odd", "rules": [{"verbs": "fly", "on": "kv/default"}]}, 400)
    guide.say("## DescribeRole\n\nShows what a role allows.")
    guide.show({"action": "DescribeRole", "role": "uploads"})
    guide.say("## ListRoles\n\nLists roles, the built-in ones first.")
    guide.show({"action": "ListRoles"})


def users(guide):
    guide.say("""
## CreateUser

Makes a user. `service` makes a program, which has no password. `roles` are granted with it. `password` is optional: 12 to 1,024 bytes. The
node hashes it (argon2id) before anything else sees it. `namespace` is the [etcd namespace](../etcd.md#namespaces) of clients that pick none.
""")
    guide.show({"action": "CreateUser", "user": "ann", "roles": ["writer on kv/default/ann/"]})
    guide.show({"action": "CreateUser", "user": "robot@shop", "service": True, "roles": ["tenant-admin"]})
    guide.show({"action": "CreateUser", "user": "ann"}, 409)
    guide.say("## DescribeUser\n\n`allowed` is what the user's roles come to.")
    guide.show({"action": "DescribeUser", "user": "robot@shop"})
    guide.say("## ListUsers\n\nLists users by name. `tenant` narrows the list. `limit` bounds the page; `next` of an answer is the `start_after` of the next page.")
    guide.show({"action": "ListUsers", "limit": 2})
    guide.say("## ChangeUser\n\nChanges the fields that the request has: `disabled`, `password`, `no_password` to remove the password, or `namespace` (empty: none of its own). A disabled user can do nothing; tokens and roles stay for the day it is enabled.\n"
              "To set a password or to enable a user you need [all that the user has](../access.md#who-may-give-what). A retry with the same `request_id` changes nothing again.")
    guide.show({"action": "ChangeUser", "user": "ann", "disabled": True})
    guide.show({"action": "ChangeUser", "user": "ann", "disabled": False})
    guide.say("## GrantRole\n\nGives a role to a user. `on` narrows it to one resource. You need [what it gives](../access.md#who-may-give-what), "
              "or the role must be grantable. A retry with the same\n`request_id` takes no later change back: a user remembers the last 16 requests that changed it.")
    guide.show({"action": "GrantRole", "user": "ann", "role": "uploads"})
    guide.show({"action": "GrantRole", "user": "ann", "role": "reader", "on": "kv/photos"})
    guide.say("## RevokeRole\n\nTakes a role from a user, with the `on` it was granted with. "
              "Not the last one that gives everything. A retry with the same `request_id` is answered as at first.")
    guide.show({"action": "RevokeRole", "user": "ann", "role": "reader", "on": "kv/photos"})


def groups(guide):
    guide.say("""
## CreateGroup

Makes a group. A user whom the OIDC issuer puts into the group has the group's roles. `claim` is the issuer's name for the group; by default it is the group's own name.
With `replace` it changes a group that exists. A retry with the same `request_id` takes no later change back, as of a role. If you change its `issuer` or `claim`, Hive treats it as another group.
""")
    ask = {"action": "CreateGroup", "group": "devs", "issuer": "https://login.example.org", "claim": "/platform/devs"}
    guide.show({**ask, "roles": ["writer on kv/default/dev/"]})
    guide.show(ask, 409)
    guide.say("## ListGroups\n\nLists groups by name. `tenant` narrows the list. `limit` and `next` as in ListUsers.")
    guide.show({"action": "ListGroups"})
    guide.say("## DeleteGroup\n\nRemoves a group. Within two seconds no node that reaches the world gives its members the group's roles.")
    guide.show({"action": "DeleteGroup", "group": "devs"})


def tokens(guide):
    guide.say("## CreateToken\n\nMakes a bearer token. This answer is the only one that shows it: the world keeps a hash.")
    ask = {"action": "CreateToken", "user": "ann", "expires_in_s": 3600, "on": "kv/default/ann/", "note": "laptop"}
    token = guide.show(ask)["token"]
    guide.say("## WhoAmI\n\nShows the user who asks, and what it may do. Sent with the token above:")
    guide.show({"action": "WhoAmI"}, token=token)
    guide.say("The node refuses what the token does not allow. It also refuses a token that does not exist:")
    guide.show({"action": "KvPut", "key": "bob", "value": "v"}, 403, token=token)
    guide.show({"action": "WhoAmI"}, 401, token="hive_0000000000000001_" + "A" * 43)
    guide.say("## ListTokens\n\nLists tokens, without their secrets. `user` narrows the list.")
    listed = guide.show({"action": "ListTokens", "user": "ann"})["tokens"]
    guide.say("## RevokeToken\n\nEnds a token. Within two seconds every node that reaches the world refuses it.")
    guide.show({"action": "RevokeToken", "id": listed[0]["id"], "user": "ann"})


def s3_keys(guide):
    guide.say("## CreateS3Key\n\nMakes an S3 access key for a user. This answer is the only one that shows the secret: the world keeps it sealed. `on` bounds everything that is done with the key. `account` is what policies of buckets call the user.")
    ask = {"action": "CreateS3Key", "user": "ann", "expires_in_s": 3600, "on": "bucket/photos/ann/", "note": "backup"}
    made = guide.show(ask)
    guide.say("## ListS3Keys\n\nLists S3 access keys of users, without their secrets. `user` narrows the list.")
    guide.show({"action": "ListS3Keys", "user": "ann"})
    guide.say("## RevokeS3Key\n\nEnds an S3 access key. Within two seconds every node that reaches the world refuses it.")
    guide.show({"action": "RevokeS3Key", "access_key": made["access_key"], "user": "ann"})



def sealed_keys(guide):
    guide.say("""
## SealAccessKey

Seals the secret of an S3 account's key that is in plain text, or sealed by an earlier key, by the first of `access.sealing_key_file`. A key that is made where there is a
sealing key is sealed from the start, and only this answer shows its secret:
""")
    guide.show({"action": "CreateAccount", "account": "acme"})
    guide.show({"action": "CreateAccessKey", "account": "acme", "access_key": "acme-key", "secret_key": "acme-secret-key"})
    guide.show({"action": "GetAccessKey", "access_key": "acme-key"}, node=2)
    guide.show({"action": "SealAccessKey", "access_key": "acme-key"})


def removals(guide):
    guide.say("## DeleteUser\n\nRemoves a user and all of its tokens.")
    guide.show({"action": "DeleteUser", "user": "ann"})
    guide.say("## DeleteRole\n\nRemoves a role. Users who have it keep nothing of it.")
    guide.show({"action": "DeleteRole", "role": "uploads"})
    guide.say("## DeleteTenant\n\nRemoves a tenant that has no users.")
    guide.show({"action": "DeleteTenant", "tenant": "shop"}, 409)
    guide.ask({"action": "DeleteUser", "user": "robot@shop"})
    guide.show({"action": "DeleteTenant", "tenant": "shop"})
