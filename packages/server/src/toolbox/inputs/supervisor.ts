import { join } from "node:path"
import { needPackage } from "./packages.ts"
import type { FindInput } from "./source.ts"

const PROGRAMS = [
  ...["main", "credential-helper", "git-remote-berth-host"],
  ...["web-terminal", "files-worker", "codex-gate"],
]

/** A directory below the toolbox. Node looks there for the compiled form of the files beside it. */
export const COMPILED_SUPERVISOR = "supervisor/cache"

/** The supervisor's programs, bundled by `npm run build` into one file each, and their compiled code beside them. */
export const supervisor: FindInput = async ({ from }) => {
  const { version, directory } = await needPackage("supervisor", "@berth/supervisor", from)
  return {
    name: "supervisor",
    version,
    main: "supervisor/main.cjs",
    parts: [
      ...PROGRAMS.map((name) => ({
        kind: "file" as const,
        from: join(directory, `dist/bundle/${name}.cjs`),
        to: `supervisor/${name}.cjs`,
      })),
      // Git looks for this program on the path, by this name.
      {
        kind: "link",
        target: "../supervisor/git-remote-berth-host.cjs",
        to: "bin/git-remote-berth-host",
      },
      { kind: "tree", from: join(directory, "dist/bundle/cache"), to: COMPILED_SUPERVISOR },
    ],
  }
}
