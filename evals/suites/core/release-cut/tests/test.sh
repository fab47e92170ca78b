#!/bin/bash
same() { # FILE TEXT: a file of its own, no link, that holds exactly this text; its last line end may be missing
    [ -f "$1" ] && [ ! -L "$1" ] &&
        { printf '%s\n' "$2" | cmp - "$1" || printf '%s' "$2" | cmp - "$1"; }
}

sources() { # all of src but version.sh is as it was, and nothing was added
    [ "$(cd /app/kiln/src && find . -type f | wc -l)" = 6 ] && sha256sum --check --strict --quiet <<SUMS
8515a756679e9564a7ae935f4eff10063e5d2928bb83303581e34244ab4d5625  /app/kiln/src/kiln.sh
b01e8e3bbe292b650ff7710f1e763d3fdc6ffca6c8d086549f54464c2b2b2ed6  /app/kiln/src/lib/fire.sh
6e21dc5f1b3597454601a6f38074b1a4c672fa90b6c5d759a86e287620c7a1b3  /app/kiln/src/lib/cool.sh
3f03d48b880389a7b20ee7ed57fd9aa41144d92791b0880e8bfa05ac0934f4cb  /app/kiln/src/lib/glaze.sh
105935330b0072e09f1d61dcf19307c26d3536abe843c27f0aa4027b8ec96440  /app/kiln/src/vendor/pad.sh
SUMS
}

# A function, so that the whole script is read before anything of the agent's is looked at.
main() {
    PATH=/usr/bin:/bin
    local right=0 total=5
    if sources; then
        same /app/kiln/VERSION '3.10.0' && right=$((right + 1))
        same /app/kiln/NEWS '## next

## 3.10.0 "Crackle"

- [fix] cool: stop at room temperature
- [feat] glaze: a new command
- [fix] fire: no negative temperatures

## 3.8.2 "Celadon"

- [fix] fire: accept degrees with a decimal point

## 3.8.1 "Tenmoku"

- [fix] a typing error in the help

## 3.8.0 "Ash"

- [feat] cool: a new command' && right=$((right + 1))
        same /app/kiln/src/version.sh '# set by the release
KILN_VERSION=3.10.0
KILN_BUILD=5' && right=$((right + 1))
        same /app/kiln/MANIFEST '3251415939   311 NEWS
2038998409     7 VERSION
0178268228    69 src/kiln.sh
4209086048    33 src/lib/cool.sh
0742153918    33 src/lib/fire.sh
2534935398    29 src/lib/glaze.sh
3993417098    54 src/version.sh' && right=$((right + 1))
        same /app/kiln/RELEASES '3.8.0 Ash 7b1f20c4e9
3.8.1 Tenmoku 03d9aa5517
3.8.2 Celadon c8e64f1b02
3.10.0 Crackle f828eb2235' && right=$((right + 1))
    fi
    local score=$((right * 100 / total))
    printf '%d.%02d\n' $((score / 100)) $((score % 100)) > /logs/verifier/reward.txt
    exit 0
}
main
