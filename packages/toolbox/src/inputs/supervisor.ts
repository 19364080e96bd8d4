import { join } from "node:path"
import { needPackage } from "./packages.ts"
import type { FindInput } from "./source.ts"

const PROGRAMS = [
  ...["main.cjs", "credential-helper.cjs", "git-remote-berth-host.cjs"],
  ...["web-terminal.cjs", "files-worker.cjs", "codex-gate.cjs"],
]

/** The bundles that the supervisor's program loads, each with its compiled code. */
const BUNDLES = ["first.js", "first.js.compiled", "rest.js", "rest.js.compiled"]

/** The supervisor's programs and bundles, made by `npm run build`. */
export const supervisor: FindInput = async ({ from }) => {
  const { version, directory } = await needPackage("supervisor", "@berth/supervisor", from)
  return {
    name: "supervisor",
    version,
    main: "supervisor/main.cjs",
    parts: [
      ...[...PROGRAMS, ...BUNDLES].map((name) => ({
        kind: "file" as const,
        from: join(directory, "dist/bundle", name),
        to: `supervisor/${name}`,
      })),
      // Git looks for this program on the path, by this name.
      {
        kind: "link",
        target: "../supervisor/git-remote-berth-host.cjs",
        to: "bin/git-remote-berth-host",
      },
    ],
  }
}
