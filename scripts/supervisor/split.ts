import { join, resolve } from "node:path"
import { type BuildOptions, build, type Plugin } from "esbuild"

const FIRST = "./first.js"
const REST = "./rest.js"

/** The module that the first bundle loads when the socket answers. The rest is what it imports. */
const ENTRY_OF_REST = "tend.ts"

/**
 * Splits the supervisor into two bundles for its loader. A module that the first has is taken from there, so that each
 * exists once. The bundler could split by itself, but into a dozen files, each of which takes time to load.
 */
export const splitSupervisor = async (source: string, output: string, common: BuildOptions) => {
  const options = {
    ...common,
    bundle: true,
    // Names of files in the result do not depend on where the build was started.
    absWorkingDir: source,
    // What `load` of the loader calls.
    banner: { js: "(function (module, require) {" },
    footer: { js: "})" },
    // The loader reads one byte for each character, and has no import().
    charset: "ascii",
    supported: { "dynamic-import": false },
  } satisfies BuildOptions

  const { metafile } = await build({
    ...options,
    entryPoints: ["main.ts"],
    plugins: [...(common.plugins ?? []), restIsExternal],
    metafile: true,
    write: false,
  })
  const shared = Object.keys(metafile.inputs).filter((path) => path !== "main.ts")
  await build({
    ...options,
    stdin: { contents: firstEntry(shared), resolveDir: source, sourcefile: "first.ts" },
    outfile: join(output, FIRST),
    plugins: [...(common.plugins ?? []), restIsExternal],
  })
  await build({
    ...options,
    entryPoints: [ENTRY_OF_REST],
    outfile: join(output, REST),
    plugins: [
      ...(common.plugins ?? []),
      fromFirst(new Set(shared.map((path) => resolve(source, path)))),
    ],
  })
}

/** The first bundle does nothing until it is started, so that its modules can be used in another way. */
const firstEntry = (shared: readonly string[]): string =>
  [
    ...shared.map(
      (path, place) => `import * as module${place} from ${JSON.stringify(`./${path}`)}`,
    ),
    `export const modules = [${shared.map((_, place) => `module${place}`)}]`,
    `export { run } from "./run.ts"`,
    `export const start = () => import("./main.ts")`,
  ].join("\n")

const restIsExternal: Plugin = {
  name: "rest-is-external",
  setup: ({ onResolve }) => {
    onResolve({ filter: new RegExp(`/${ENTRY_OF_REST}$`) }, ({ kind }) =>
      kind === "dynamic-import" ? { path: REST, external: true } : undefined,
    )
  },
}

const fromFirst = (shared: ReadonlySet<string>): Plugin => ({
  name: "from-first",
  setup: ({ onResolve, onLoad, resolve: find }) => {
    onResolve({ filter: /^\.|^@berth\// }, async ({ path, pluginData, ...asked }) => {
      if (pluginData === "asked" || asked.kind === "entry-point") return undefined
      const found = await find(path, { ...asked, pluginData: "asked" })
      return shared.has(found.path) ? { path: found.path, namespace: "first" } : undefined
    })
    onResolve({ filter: new RegExp(`^${FIRST}$`), namespace: "first" }, () => ({
      path: FIRST,
      external: true,
    }))
    onLoad({ filter: /./, namespace: "first" }, ({ path }) => ({
      contents: `module.exports = require("${FIRST}").modules[${[...shared].indexOf(path)}]`,
    }))
  },
})
