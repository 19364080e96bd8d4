import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import type { ToolboxInput } from "../inputs/input.ts"

/** Larger than a file that is handled in one go, so that large files are among the inputs. */
const LARGE_BYTES = 600_000

/** Makes small files that stand for a runtime and an agent with its dependencies. */
export const makeInputs = (directory: string, { files = 20 } = {}): ToolboxInput[] => {
  put(join(directory, "node"), Buffer.alloc(LARGE_BYTES, "node "), 0o755)
  const agent = join(directory, "agent")
  put(join(agent, "bin/agent"), "#!/bin/sh\necho agent\n", 0o755)
  for (let n = 0; n < files; n++)
    put(join(agent, `lib/part-${n % 5}/file-${n}.js`), `export const n = ${n}\n`)
  put(join(agent, "lib/empty.js"), "")
  symlinkSync("../bin/agent", join(agent, "lib/link-to-file"))
  symlinkSync("part-0", join(agent, "lib/link-to-directory"))
  return [
    {
      name: "node",
      version: "24.0.0",
      main: "bin/node",
      parts: [{ kind: "file", from: join(directory, "node"), to: "bin/node" }],
    },
    {
      name: "agent",
      version: "1.2.3",
      main: "agents/agent/bin/agent",
      parts: [
        { kind: "tree", from: agent, to: "agents/agent", without: ["skipped"] },
        { kind: "text", text: '{"made":true}\n', to: "agents/agent/config.json" },
        { kind: "link", target: "../agents/agent/bin/agent", to: "bin/agent" },
      ],
    },
  ]
}

export const put = (path: string, contents: string | Buffer, mode = 0o644): void => {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, contents)
  chmodSync(path, mode)
}
