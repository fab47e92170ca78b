#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
main() {
    PATH=/usr/bin:/bin
    local reward=0 file=/app/store/state
    cd /app/store || exit 0
    if [ -f "$file" ] && [ ! -L "$file" ] \
        && [ "$(sha256sum < "$file")" = 'df8aeaf6af07a6917abde67060b9e9d431e8358bc10514143010887317b0c9df  -' ] \
        && [ "$(cat state.1 state.2 state.3 journal FORMAT.md | sha256sum)" = \
            '80b26d1ccbfbfdc2cc5f9be9e670fc84d3fdf1931459c68a71b6b14f3463d94c  -' ]; then
        reward=1
    fi
    echo "$reward" > /logs/verifier/reward.txt
    exit 0
}
main
