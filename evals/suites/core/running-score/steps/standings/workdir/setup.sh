#!/bin/bash
# Nothing of the old workspace stays, this script included.
find . -mindepth 1 -delete
