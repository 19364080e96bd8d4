import { requires } from "@berth/testing/requires"
import { sampled } from "@berth/testing/sampled"
import { expect, it } from "vitest"
import { installedTool } from "./testing/npm-packages.ts"
import { startRegistry } from "./testing/registry.ts"
import { inStages } from "./testing/stages.ts"

/** Each test calls its tool six times, and each start takes up to a second on an idle machine. */
const TOOL_DEADLINE_MS = 120_000

interface Tool {
  /** The command that calls the tool, with the settings for every call. */
  run(registry: string): string
  readonly add: string
  readonly upgrade: string
  /** Installs the packages of the lock file from the tool's own store. */
  readonly reinstall: string
  readonly remove: string
  readonly clean: string
  /** The directory that the tool keeps outside of the project. */
  readonly store: string
  /** False for a tool that cannot replace a file by a directory on any disk. */
  readonly turning: boolean
}

/** Runs a tool without the settings of the user who runs the tests. */
const ALONE = 'env -i PATH="$PATH" HOME="$HOME"'

const TOOLS: Readonly<Record<string, Tool>> = {
  npm: {
    run: (registry) =>
      `${ALONE} npm_config_registry=${registry} npm_config_update_notifier=false npm`,
    add: "install p@1",
    upgrade: "install p@latest",
    reinstall: "ci --offline",
    remove: "uninstall p",
    clean: "cache clean --force",
    store: ".npm",
    turning: true,
  },
  "yarn 1": {
    run: (registry) =>
      `${ALONE} YARN_REGISTRY=${registry} node ${installedTool("yarn", "bin/yarn.js")}`,
    add: "add p@1",
    upgrade: "upgrade --latest p",
    reinstall: "install --offline --frozen-lockfile",
    remove: "remove p",
    clean: "cache clean",
    store: ".cache/yarn",
    turning: false,
  },
  "yarn 4": {
    run: (registry) =>
      `${ALONE} YARN_NPM_REGISTRY_SERVER=${registry} YARN_UNSAFE_HTTP_WHITELIST=127.0.0.1 YARN_ENABLE_TELEMETRY=0 YARN_NODE_LINKER=node-modules node ${installedTool("@yarnpkg/cli-dist", "bin/yarn.js")}`,
    add: "add p@1",
    upgrade: "up p",
    reinstall: "install --immutable --immutable-cache",
    remove: "remove p",
    clean: "cache clean --all",
    store: ".yarn/berry",
    turning: true,
  },
  pnpm: {
    // Without an age limit, packages that nothing needs any more are removed at once.
    run: (registry) =>
      `${ALONE} npm_config_registry=${registry} npm_config_update_notifier=false npm_config_modules_cache_max_age=0 node ${installedTool("pnpm", "bin/pnpm.cjs")}`,
    add: "add p@1",
    upgrade: "update --latest p",
    reinstall: "install --offline --frozen-lockfile",
    remove: "remove p",
    clean: "store prune",
    store: ".local/share/pnpm/store",
    turning: true,
  },
}

/** mv would copy where a rename fails. */
const RENAME = `rename() { node -e 'fs.renameSync(...process.argv.slice(1))' "$1" "$2"; }`

/** The text and the files of p, and of q as p finds it. */
const LOOK = `
for main in $(node -p 'const p = require.resolve("p"); [p, require.resolve("q", { paths: [p] })].join("\\n")'); do
  cat "$main"
  (cd "$(dirname "$main")"; find . -type f | LC_ALL=C sort | xargs)
done`

const looks = (major: number, turns: string): string =>
  `module.exports = ${major}\n./index.js ./lib/only${major}/x.js ./package.json ./${turns}\n`.repeat(
    2,
  )

requires("root").describe("on files that lie in lower layers", () => {
  for (const [name, tool] of sampled("package managers on layers", Object.entries(TOOLS), 1)) {
    it(
      `${name} installs, upgrades, reinstalls, removes and cleans`,
      async () => {
        const { add, upgrade, reinstall, remove, clean, store, turning } = tool
        const run = tool.run(await startRegistry(turning))
        const said = await inStages([
          `mkdir app; cd app; echo '{"name":"app"}' > package.json; ${run} ${add} >&2`,
          `cd app; ${LOOK}; ${run} ${upgrade} >&2`,
          `${RENAME}; cd app; ${LOOK}; rename node_modules aside; rename aside node_modules; rename ~/${store} ~/aside; rename ~/aside ~/${store}; ${run} ${reinstall} >&2`,
          `${RENAME}; rename app moved; cd moved; ${LOOK}; rm -r node_modules; ${run} ${reinstall} >&2`,
          `cd moved; ${LOOK}; ${run} ${remove} >&2; ${run} ${clean} >&2`,
          // pnpm's store keeps files that have other names, and an overlay counts names that it hides.
          "ls; find . -name p -o -name q; grep -rl --exclude-dir=store module.exports . || true",
        ])
        const upgraded = looks(2, turning ? "turns/in.js" : "turns")
        expect(said).toEqual(["", looks(1, "turns"), upgraded, upgraded, upgraded, "moved\n"])
      },
      TOOL_DEADLINE_MS,
    )
  }
})
