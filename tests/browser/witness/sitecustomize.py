"""Python reads this at its start when the folder is on PYTHONPATH: it notes every address asked for."""

import os
import sys

HERE = {"127.0.0.1", "::1", "localhost", "0.0.0.0", "::", "", None}


def note(event, arguments):
    if event == "socket.connect":
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) else None  # a Unix socket stays on the machine
    elif event == "socket.getaddrinfo":
        host = arguments[0]
    else:
        return
    host = host.decode() if isinstance(host, bytes) else host
    if host not in HERE:
        with open(os.environ["WITNESS"], "a", encoding="utf-8") as file:
            file.write(f"{event} {host}\n")


sys.addaudithook(note)
