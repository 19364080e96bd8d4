import { extname } from "node:path"
import { fileURLToPath } from "node:url"
import { build } from "esbuild"

const SOURCE = fileURLToPath(new URL("..", import.meta.url))

/** The module that plays a script of data: see main.ts. */
const PLAYER = `import "./model/main${extname(import.meta.filename)}"`

/**
 * A scripted model as one plain file, which runs wherever node does: a sandbox cannot reach the host's loopback.
 * `main` is a module beside `scripted-model.ts`.
 */
export const modelProgram = async (main = PLAYER): Promise<string> => {
  const { outputFiles } = await build({
    stdin: { contents: main, resolveDir: SOURCE },
    bundle: true,
    write: false,
    platform: "node",
    format: "esm",
    target: "node24",
  })
  return outputFiles[0]?.text ?? ""
}
