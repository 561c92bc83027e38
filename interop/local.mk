# interop: tests against peers that are not ours.
