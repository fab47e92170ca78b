#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
is() { # SUM FILE
    [ -f "$2" ] && [ ! -L "$2" ] && [ "$(sha256sum < "$2")" = "$1  -" ]
}

main() {
    PATH=/usr/bin:/bin
    local sum file right=0 total=0 score
    echo 0 > /logs/verifier/reward.txt
    cd /app/accounts || exit 0
    while read -r sum file; do
        is "$sum" "$file" || { echo "should have stayed: $file"; exit 0; }
    done << 'KEPT'
d65762bebf34b5d632fc57d46fd601fb872323512817e5cc045809d6daa3d4f8  a001.acc
abbcc6311895af2e87a1d1b0e173d152a6d65d26037512b353a93a7971e748bb  a002.acc
2f0e80dc4d6fee52b50d40eecd805c11553cb6fe43a01bc3e6f4a57288c129e8  a003.acc
c8ef2f3c1d148cc44ad45bcc3381499504338a791aed89303a9d9e5a549a0ba4  a004.acc
bf709e5a03888c8d6b6767a8acf4298b111ab84f7da083dfbeb3d13c111e686f  a005.acc
b24c580c2b6d2728e69643cc5eba1e0c0178441f7b947c10b8b3840212eb44f0  a006.acc
03625de708c3f584428fdf32d987604174944e1aa25dd34a2fed40694fcb0d8a  a007.acc
c668646465e6c64f4dfff8d02cd8cf5565cdac92c6765182037adf1648c0586a  a008.acc
f0efacff37da21f9ea093c09638c956b9f9bed7d068ea75e4d55e99d8d59971d  a009.acc
35c42c66574508eb45f0604ba3884bc679959c52d43c8c3ec9065ffc01075ed5  a012.acc
27c2b582f254c4bfdb6cd3a8eaf09643deb88ef32935f4f31331ba4f4c3e1457  a013.acc
f5e585847369c1412d8bb51c70ca74fc1a6c6c6d1cbac86571e62346b58c45d7  a020.acc
KEPT
    while read -r sum file; do
        total=$((total + 1))
        [ -e "$file" ] || { echo "missing: $file"; exit 0; }
        if is "$sum" "$file"; then right=$((right + 1)); else echo "wrong: $file"; fi
    done << 'MIGRATED'
e326b32aca3745eadba0e7429533370230e9cc47877769d02ac401978957c151  a010.acc
15be50c72b959559e531ab67db5ad059ecf1317b409a07b183caae67c2128c04  a011.acc
8f5027a3f5921ef9aa20cdafbf0c9a3a366a70cf48b645699c4915bc3bb6ad39  a014.acc
71510740eac0816e0664f88b48077b9541c44078d7a84b29bd782a89b9130a34  a015.acc
532ca92945a038995065086ec0150c509db813d5bdaedb5d10d7f98fd561376b  a016.acc
f6de639ae46ca1a18be621009630a3e4308f0e288df937518cb247891a968cab  a017.acc
c65f34328f0fd0f02e28b8bd59a552399b274e05a7cc326c66074e42ffde02ff  a018.acc
c086ecc15f7b98f9a67463831c87307850c633ae78577e3f8cf1d00a91ee1e8b  a019.acc
746968b3570d0755945747cfe1b6fe1013d8de822e57a9be05430d7c3a070d0e  a021.acc
6c5bfbbb1ded6d08a05f1d168acd0695d1f0584d1c77922cda5067d07a883b6f  a022.acc
972d36ba6e553f6bdd94ac36e2be5e9ca3907967da79cc74347b05846b7041a7  a023.acc
13f44708f35184bbdc062500f0345180f4cfa50d1069843b09258edfa9bc1eef  a024.acc
MIGRATED
    score=$((right * 100 / total))
    if [ "$(ls -A | wc -l)" != 24 ]; then
        echo 'something else lies there'
        score=$((score > 10 ? score - 10 : 0))
    fi
    printf '%d.%02d\n' $((score / 100)) $((score % 100)) > /logs/verifier/reward.txt
    exit 0
}
main
