import { needPackage, packageTree } from "./packages.ts"
import type { FindInput } from "./source.ts"

/** Terminals, compiled already. The supervisor finds the package by name: it lies in a `node_modules` above it. */
export const pty: FindInput = async ({ arch, from }) => {
  const name = "@lydell/node-pty"
  const binary = `${name}-linux-${arch}`
  const { version, directory } = await needPackage("pty", name, from)
  // npm leaves out an optional dependency that it could not fetch, and says nothing.
  await needPackage("pty", binary, directory)
  return {
    name: "pty",
    version,
    main: `node_modules/${binary}/pty.node`,
    parts: await packageTree("pty", name, { from, to: "node_modules" }),
  }
}
