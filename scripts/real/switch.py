"""A network between network namespaces, with delay, loss and cuts: one TUN device in each namespace, and
this process as the wire between them. Needs neither bridges nor `tc netem`.

  switch.py FD:ADDRESS …      commands on standard input, each answered with `ok`:
    cut A B      drops what A sends to B (one direction); `*` for B: to every node
    delay MS     of every packet between nodes (not to or from the clients' address, the last one)
    loss PERCENT of the same
    heal         no cut, no delay, no loss

Always: order between two addresses is kept (delay is constant); queues are bounded. Not here: making
the namespaces (case_network.py).
"""
import collections
import os
import random
import select
import socket
import sys
import time

# What a wire holds; beyond it packets are lost, as on any.
QUEUE_PACKETS_MAX = 20_000
PACKET_BYTES_MAX = 65_536


def main():
    places = [item.split(":") for item in sys.argv[1:]]
    wires = {socket.inet_aton(address): int(fd) for fd, address in places}
    clients = list(wires)[-1]
    for fd in wires.values():
        os.set_blocking(fd, False)
    cuts, delay, loss = set(), 0.0, 0.0
    queue = collections.deque()
    commands = b""
    while True:
        timeout = max(0.0, queue[0][0] - time.monotonic()) if queue else None
        readable, _, _ = select.select([0, *wires.values()], [], [], timeout)
        now = time.monotonic()
        while queue and queue[0][0] <= now:
            _, fd, packet = queue.popleft()
            put(fd, packet)
        for fd in readable:
            if fd == 0:
                piece = os.read(0, 4096)
                if not piece:
                    return
                commands += piece
                while b"\n" in commands:
                    line, commands = commands.split(b"\n", 1)
                    words = line.decode().split()
                    if words[0] == "cut":
                        for target in (wires if words[2] == "*" else [socket.inet_aton(words[2])]):
                            if target != clients:
                                cuts.add((socket.inet_aton(words[1]), target))
                    elif words[0] == "delay":
                        delay = float(words[1]) / 1000
                    elif words[0] == "loss":
                        loss = float(words[1]) / 100
                    elif words[0] == "heal":
                        cuts, delay, loss = set(), 0.0, 0.0
                    os.write(1, b"ok\n")
                continue
            for _ in range(64):
                try:
                    packet = os.read(fd, PACKET_BYTES_MAX)
                except BlockingIOError:
                    break
                if len(packet) < 20 or packet[0] >> 4 != 4:
                    continue
                source, target = packet[12:16], packet[16:20]
                out = wires.get(target)
                if out is None or (source, target) in cuts:
                    continue
                if clients in (source, target) or not (delay or loss):
                    put(out, packet)
                elif random.random() >= loss and len(queue) < QUEUE_PACKETS_MAX:
                    queue.append((now + delay, out, packet))


def put(fd, packet):
    try:
        os.write(fd, packet)
    except OSError:
        pass  # a full device loses packets, as a wire does


if __name__ == "__main__":
    main()
