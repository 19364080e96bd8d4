import { join } from "node:path"
import { needPackage } from "./packages.ts"
import type { FindInput } from "./source.ts"

const PROGRAMS = ["main", "credential-helper"]

/** Its programs, bundled by `npm run build` into one file each: CommonJS, which starts sooner than modules do. */
export const supervisor: FindInput = async ({ from }) => {
  const { version, directory } = await needPackage("supervisor", "@berth/supervisor", from)
  return {
    name: "supervisor",
    version,
    main: "supervisor/main.cjs",
    parts: PROGRAMS.map((name) => ({
      kind: "file",
      from: join(directory, `dist/bundle/${name}.cjs`),
      to: `supervisor/${name}.cjs`,
    })),
  }
}
