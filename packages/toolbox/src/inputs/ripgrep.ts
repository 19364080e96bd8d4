import { join } from "node:path"
import { needPackage } from "./packages.ts"
import type { FindInput } from "./source.ts"

/** Agents search with ripgrep, and some fetch it from the network where they do not find it. Statically linked. */
export const ripgrep: FindInput = async ({ arch, from }) => {
  const { version, directory } = await needPackage("ripgrep", `@vscode/ripgrep-linux-${arch}`, from)
  const main = "bin/rg"
  return {
    name: "ripgrep",
    version,
    main,
    parts: [{ kind: "file", from: join(directory, "bin/rg"), to: main }],
  }
}
