# The words and the packaging: manual pages, documents and installation say what is there.
load helpers

repository=$BATS_TEST_DIRNAME/../..

# man_options PAGE: what its lists of options begin their items with.
man_options() {
  grep '^\.It Fl' "$repository/man/$1.1" | grep -oE 'Fl [-A-Za-z]+' | sed 's/Fl /-/' | sort -u
}

# The pages' own words reach a reader only if every word of the markup is one that mdoc(7) knows.
@test "every manual page is without errors" {
  for page in "$repository"/man/*.1; do
    mandoc -T lint -W warning "$page"
  done
}

@test "every verb has a manual page with exactly its options, and the main page names it" {
  [ "$(verbs | wc -l)" -ge 6 ]
  for verb in $(verbs); do
    echo "$verb"
    same_lines "$(help_options "$verb")" "$(man_options "pinprick-$verb")"
    grep -qx "\.It Cm $verb" "$repository/man/pinprick.1"
    grep -qE "^\.Xr pinprick-$verb 1" "$repository/man/pinprick.1"
  done
  same_lines "$(help_options)" "$(man_options pinprick)"
}

@test "no manual page is about a verb that is none" {
  same_lines "$(cd "$repository/man" && printf '%s\n' pinprick-*.1 | sort)" \
    "$(verbs | sed 's/.*/pinprick-&.1/' | sort)"
}

@test "help fits a terminal of 100 columns" {
  for verb in '' $(verbs); do
    # shellcheck disable=SC2086
    "$PINPRICK" $verb --help >"$work/help"
    awk 'length > 100 { print; wide = 1 } END { exit wide }' "$work/help"
  done
}

@test "every document that a source refers to is there" {
  local name missing=0
  for name in $(cd "$repository" && grep -rhoE '\bdocs/[a-z_0-9]+\.md' src tests bench scripts man include |
    sort -u); do
    [ -e "$repository/$name" ] || { echo "$name"; missing=1; }
  done
  [ $missing -eq 0 ]
}

# links_lead_somewhere FOLDER: of README and documents there; `#...` after a link is not looked at.
links_lead_somewhere() {
  local file link broken=0
  for file in "$1"/*.md "$1"/docs/*.md; do
    for link in $(grep -oE '\]\([^)# ]+' "$file" | cut -c3- | grep -vE '^[a-z]+:'); do
      [ -e "$(dirname "$file")/$link" ] || { echo "$file: $link"; broken=1; }
    done
  done
  [ $broken -eq 0 ]
}

@test "every link between documents leads to a file" { links_lead_somewhere "$repository"; }

@test "every source file that a document names is there" {
  local file name missing=0
  for file in "$repository"/*.md "$repository"/docs/*.md; do
    for name in $(grep -oE '`(src|tests|bench|scripts|include)/[A-Za-z0-9_/.-]*`' "$file" | tr -d '`'); do
      [ -e "$repository/$name" ] || { echo "$file: $name"; missing=1; }
    done
  done
  [ $missing -eq 0 ]
}

# Each reason that a user can meet is explained.
@test "every reason for not placing a probe, and every tactic, stands in docs/placing.md" {
  local word
  for word in $(sed -nE 's/^ +return "([a-z_]+)";$/\1/p' "$repository/src/plan/tactic.cc"); do
    grep -qE "^(### $word|\| \`$word\` \|)" "$repository/docs/placing.md" || { echo "$word"; return 1; }
  done
}

@test "every type of record and every field of --json stands in docs/json.md" {
  local word
  for word in $(grep -oE '\{"[a-z0-9_]+", |record\["[a-z_]+"\]|"type", "[a-z]+"|head\("[a-z]+"' \
    "$repository/src/cli/render/json.cc" | grep -oE '"[a-z0-9_]+"' | tr -d '"' | sort -u); do
    grep -qE "\`$word\`|^## $word\$" "$repository/docs/json.md" || { echo "$word"; return 1; }
  done
}

@test "what is installed runs, and lies where it belongs" {
  cmake --install "$(dirname "$PINPRICK")" --prefix "$work/prefix" >/dev/null
  local verb name
  [ "$("$work/prefix/bin/pinprick" --version)" = "$("$PINPRICK" --version)" ]
  for name in share/man/man1/pinprick.1.gz lib/systemd/system/pinprick-mount.service \
    lib/systemd/system/pinprick-serve.service share/doc/pinprick/grafana-dashboard.json \
    share/bash-completion/completions/pinprick \
    share/zsh/vendor-completions/_pinprick share/fish/vendor_completions.d/pinprick.fish \
    share/doc/pinprick/README.md share/doc/pinprick/LICENSE share/doc/pinprick/NOTICES; do
    [ -s "$work/prefix/$name" ]
  done
  for verb in $(verbs); do [ -s "$work/prefix/share/man/man1/pinprick-$verb.1.gz" ]; done
  for name in "$repository"/docs/*.md; do
    cmp "$name" "$work/prefix/share/doc/pinprick/docs/$(basename "$name")"
  done
  links_lead_somewhere "$work/prefix/share/doc/pinprick"
  # Nothing else that runs: no tests.
  [ "$(find "$work/prefix" -type f -executable | wc -l)" -eq 1 ]
}

@test "make uninstall removes what make install has left, and nothing else" {
  local fake=$work/build list
  mkdir "$fake"
  cmake --install "$(dirname "$PINPRICK")" --prefix "$work/prefix" >/dev/null
  cp "$(dirname "$PINPRICK")/install_manifest.txt" "$fake/installed.txt"
  echo mine >"$work/prefix/bin/mine"
  "$repository/scripts/uninstall" "$fake"
  list=$(cd "$work/prefix" && find . ! -type d)
  [ "$list" = ./bin/mine ]
  [ -z "$(find "$work/prefix" -name pinprick)" ]
  run ! "$repository/scripts/uninstall" "$fake"
  grep -q '^uninstall: .*installed.txt is missing' <<<"$output"
}
