import { join } from "node:path"
import { needPackage } from "./packages.ts"
import type { FindInput } from "./source.ts"

/** The Node that everything of Berth runs on, outside and inside. */
export const node: FindInput = async ({ arch, from }) => {
  const { version, directory } = await needPackage("node", `node-linux-${arch}`, from)
  const main = "bin/node"
  return {
    name: "node",
    version,
    main,
    parts: [{ kind: "file", from: join(directory, "bin/node"), to: main }],
  }
}
