import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { needPackage, packageTree } from "./packages.ts"
import type { FindInput } from "./source.ts"

const HOME = "agents/opencode"
const PLUGIN = "@opencode-ai/plugin"

/** The packages of OpenCode's program. On x64 it is the one for every processor, the only one that is installed. */
const BINARIES = { x64: "opencode-linux-x64-baseline", arm64: "opencode-linux-arm64" }

/**
 * OpenCode's program, and `config`: the files that must lie in the user's configuration directory so that it installs
 * nothing there. It skips the installation only where `node_modules` exists and the lock file beside it lists the
 * plugin; it deletes a `node_modules` that has no such lock file.
 *
 * OpenCode would install the same into a repo's `.opencode`, and wait for it. `etc/npmrc` is the global configuration of
 * the npm inside OpenCode, and of no other npm: offline, that installation fails at once and writes nothing. `packages`
 * lies where OpenCode installs the plugins that a configuration names, over the network.
 */
export const opencode: FindInput = async ({ arch, from }) => {
  const { version, directory } = await needPackage("opencode", BINARIES[arch], from)
  const plugin = await needPackage("opencode", PLUGIN, from)
  if (plugin.version !== version) {
    throw new BerthError(
      "toolbox.input_refused",
      `the toolbox cannot carry opencode: ${PLUGIN} is ${plugin.version}, and opencode is ${version}`,
      { details: { entry: "opencode", version, plugin: plugin.version } },
    )
  }
  const main = `${HOME}/bin/opencode`
  const config = `${HOME}/config`
  const dependencies = { [PLUGIN]: version }
  const lock = { lockfileVersion: 3, packages: { "": { dependencies } } }
  return {
    name: "opencode",
    version,
    main,
    parts: [
      { kind: "file", from: join(directory, "bin/opencode"), to: main },
      { kind: "link", target: `../${main}`, to: "bin/opencode" },
      { kind: "text", text: "offline=true\n", to: `${HOME}/etc/npmrc` },
      { kind: "text", text: "offline=false\n", to: `${HOME}/packages/npmrc` },
      { kind: "text", text: toJson({}), to: `${HOME}/packages/package.json` },
      { kind: "text", text: toJson({ dependencies }), to: `${config}/package.json` },
      { kind: "text", text: toJson(lock), to: `${config}/package-lock.json` },
      ...(await packageTree("opencode", PLUGIN, { from, to: `${config}/node_modules` })),
    ],
  }
}

const toJson = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`
