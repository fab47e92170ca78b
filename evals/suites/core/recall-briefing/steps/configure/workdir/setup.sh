#!/bin/bash
# A new session: nothing of the old workspace stays, this script included.
find . -mindepth 1 -delete
