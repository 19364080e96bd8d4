import { requires } from "@berth/testing/requires"
import { expect, it } from "vitest"
import { HOST_ROOT } from "./testing/mount.ts"
import { inStages } from "./testing/stages.ts"
import { makeWheels } from "./testing/wheels.ts"

/** Each test calls python about ten times, and each start of pip takes up to a second on an idle machine. */
const TOOL_DEADLINE_MS = 120_000

/** mv would copy where a rename fails. */
const RENAME = `rename() { python3 -c 'import os, sys; os.rename(*sys.argv[1:])' "$1" "$2"; }`

/** The versions and the files of p and q, and the other entries beside them. */
const LOOK = `
bin/python -Bc 'import p, q; print(p.version, q.version)'
(cd lib/python*/site-packages; find . -type f ! -name '*.pyc' ! -path '*.dist-info/*' | LC_ALL=C sort | xargs; ls -A | LC_ALL=C sort | xargs)`

const looks = (version: number, turns: string): string => {
  const files = ["p", "q"].map(
    (name) => `./${name}/__init__.py ./${name}/only${version}/x.py ./${name}/${turns}`,
  )
  return `${version} ${version}\n${files.join(" ")}\np p-${version}.dist-info q q-${version}.dist-info\n`
}

requires("root", "pip").describe("on files that lie in lower layers", () => {
  it(
    "python makes, renames, clears and upgrades its environments",
    async () => {
      const said = await inStages(
        [
          "python3 -m venv --without-pip venv; mkdir -p venv/lib/pkg/sub; touch venv/lib/pkg/sub/x",
          `${RENAME}; rename venv/lib/pkg venv/lib/pkg-old; python3 -c 'import shutil; shutil.rmtree("venv/lib/pkg-old")'; mkdir venv/lib/pkg; touch venv/lib/pkg/new`,
          `${RENAME}; python3 -m venv --without-pip --clear venv; rename venv venv2; python3 -m venv --without-pip --upgrade venv2; venv2/bin/python -c 'print(6 * 7)'; test ! -e venv2/lib/pkg`,
        ],
        HOST_ROOT,
      )
      expect(said.at(-1)).toBe("42\n")
    },
    TOOL_DEADLINE_MS,
  )

  it(
    "pip installs, upgrades, goes back to an older version, and uninstalls",
    async () => {
      const wheels = makeWheels()
      const pip = `env -i PATH="$PATH" HOME="$HOME" python3 -m pip --isolated --python bin/python`
      const install = `${pip} install --no-index --find-links ${wheels}`
      const said = await inStages(
        [
          `python3 -m venv --without-pip venv; cd venv; ${install} p==1 >&2`,
          `cd venv; ${LOOK}; ${install} --upgrade p >&2`,
          `${RENAME}; rename venv moved; cd moved; ${LOOK}; ${install} --force-reinstall p==1 >&2`,
          `cd moved; ${LOOK}; ${pip} uninstall --yes p q >&2`,
          "ls; ls -A moved/lib/python*/site-packages",
        ],
        HOST_ROOT,
      )
      expect(said).toEqual([
        "",
        looks(1, "turns"),
        looks(2, "turns/in.py"),
        looks(1, "turns"),
        "moved\n",
      ])
    },
    TOOL_DEADLINE_MS,
  )
})
