import { join } from "node:path"
import { needPackage } from "./packages.ts"
import type { FindInput } from "./source.ts"

/** Bundled by `npm run build` into one file. */
export const supervisor: FindInput = async ({ from }) => {
  const { version, directory } = await needPackage("supervisor", "@berth/supervisor", from)
  const main = "supervisor/main.mjs"
  return {
    name: "supervisor",
    version,
    main,
    parts: [{ kind: "file", from: join(directory, "dist/supervisor.mjs"), to: main }],
  }
}
