"""The page about clusters that cannot continue by themselves. Needs a world whose killed nodes stay down."""


def skip(guide):
    guide.page("recovery.md", "Clusters that need an operator", "[Damage and repair](../operations/damage.md) and [a lost majority](../recover.md) say when to use these actions.")
    guide.include("skip.md")
    guide.show({"action": "SkipEntry", "name": "metadata/redis@orders", "index": 4711, "deadline_ms": 20000}, 409)


def recover(guide, world):
    guide.page("recovery.md")
    name = "metadata@ks-orders-0"
    guide.ask({"action": "CreateKeyspace", "keyspace": "orders", "rule": "size=3 location=fr-par"})
    guide.ask({"action": "KvPut", "keyspace": "orders", "key": "order-1", "value": "open"})
    members = [member["node"] for member in guide.ask({"action": "DescribeCluster", "name": name})[1]["cluster"]["members"]]
    survivor, *victims = sorted(members)
    guide.say(f"""
## RecoverCluster

Recovers a cluster whose majority is gone for good. Without `confirm` the action only reports what is left and changes nothing. In this world of seven nodes the
cluster is on nodes {', '.join(map(str, sorted(members)))}, and nodes {' and '.join(map(str, victims))} were killed:
""")
    for victim in victims:
        world.kill(victim)
    answered = lambda answer: answer["ok"]
    ask = {"action": "RecoverCluster", "name": name, "deadline_ms": 20000}
    node = survivor
    # The world counts a node as up for some seconds after its death, and names no survivor until then.
    surveyed = lambda answer: answered(answer) and answer["recovery"]["survivor"] is not None
    best = guide.show(ask, node=node, wait=surveyed)["recovery"]["survivor"]
    guide.say("""
With the cluster's name as `confirm`, a new life of the cluster begins on the `survivor`. Send the survivor that the report named. `held` lists the nodes that keep
data of the ended life.
""")
    guide.show({**ask, "confirm": name, "survivor": best}, node=node, wait=answered)
    guide.say("## ListRecoveries\n\nLists the recoveries of one cluster (`name`), or all. `state` is `open` until the cluster has as many members as its rule wants; then it is `whole`.")
    whole = lambda answer: answer["ok"] and answer["recoveries"][0]["state"] == "whole"
    guide.show({"action": "ListRecoveries"}, node=node, wait=whole)
    guide.say("## DiscardEnded\n\nRemoves, for good, what an ended life of a cluster left on a node. The action is refused until the new life serves. Here the node was started again first:")
    world.start_node(victims[0])
    guide.show({"action": "DiscardEnded", "name": name, "node": victims[0], "deadline_ms": 20000}, node=node, wait=answered)
