import { realpath } from "node:fs/promises"
import { findTool } from "@berth/host/find-tool"
import { run } from "@berth/host/run"
import { BerthError } from "@berth/protocol/errors"
import type { FindInput } from "./source.ts"

/**
 * The first process of a sandbox. The static tini runs in every image; a host that has only the other one gives that,
 * which wants a C library at least as new as the host's.
 */
export const tini: FindInput = async ({ path, signal }) => {
  const file = (await findTool("tini-static", path)) ?? (await findTool("tini", path))
  if (file === undefined) {
    throw new BerthError(
      "toolbox.input_missing",
      "the toolbox needs tini, and it is not installed on this host",
      { details: { entry: "tini", path } },
    )
  }
  const { stdout } = await run([file, "--version"], { signal })
  const main = "bin/tini"
  return {
    name: "tini",
    version: /(\d+(?:\.\d+)+)/.exec(stdout)?.[1] ?? "unknown",
    main,
    // The package manager may have made the program a link; only the file is copied.
    parts: [{ kind: "file", from: await realpath(file), to: main }],
  }
}
