import { openLayers } from "../open.ts"
import { ID_BASE } from "./ids.ts"
import { key } from "./key.ts"

/**
 * A program that freezes a stack, verifies the store and prints both: `node freeze-child.ts ROOT`, with as little
 * memory as it is given.
 */
const [, , root = ""] = process.argv
const layers = await openLayers({ root, idBase: ID_BASE })
const frozen = await layers.freeze(key("shop"))
const { problems } = await layers.verify()
const { size } = (await layers.list()).layers.map(({ files }) => ({ size: files }))[0] ?? {}
console.log(JSON.stringify({ made: frozen.made, problems, files: size }))
