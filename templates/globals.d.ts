// What stands beside the modules in the one script that pages load (reporter.report.templating).

/** The Vega configuration of each theme, from reporter.charts.styles. */
declare const THEMES: { light: object; dark: object };

/** Regular expressions of reporter.store.formats: what a spreadsheet takes for a formula, and what is quoted. */
declare const CSV_RULES: { formula: string; quoted: string };

/** Newer than the list of TypeScript that checks this. */
declare class DecompressionStream {
  constructor(format: "gzip");
  readonly readable: ReadableStream;
  readonly writable: WritableStream;
}

interface Window {
  vegaEmbed(element: Element, spec: object, options: object): Promise<{ view: any; finalize: () => void }>;
  /** Data that a page loads are scripts, which call one of these. */
  reporterPart: (name: string, value: any) => void;
  /** In a report of one file: the text that is packed in it under a name, or null where it has none. */
  reporterPacked?: (name: string) => Promise<string> | null;
  reporterHolds: (name: string) => boolean;
}

/** Newer than Debian's tsc. */
interface Element { checkVisibility(): boolean }

// Types of what the modules hand to each other.

/** The element that a selector begins with. */
type Found<S extends string> = S extends keyof HTMLElementTagNameMap ? HTMLElementTagNameMap[S] : S extends `${infer T}[${string}` ? Found<T> : S extends `${infer T}.${string}` ? Found<T> : HTMLElement;
/** The element that a tag makes. */
type Made<T extends string> = T extends keyof HTMLElementTagNameMap ? HTMLElementTagNameMap[T] : T extends `svg:${infer S}` ? S extends keyof SVGElementTagNameMap ? SVGElementTagNameMap[S] : SVGElement : HTMLElement;
type Row = Record<string, any>;
type Cell = string | number | boolean | null;
type PackedColumn = { plain?: Cell[]; levels?: Cell[]; codes?: number[]; runs?: number[] };
type Packed = { rows: number; columns: Record<string, PackedColumn> };
type Literal = string | number | null;
/** Of a query: a column and its value or values; what is undefined is left open. */
type Choice = Record<string, Literal | Literal[] | undefined>;
/** Of a tip: text or an element, or a label and its value. */
type Line = string | Node | [string, string | Node];
/** Where a mark lies in its drawing, and what is said at it. */
type Mark = { x: number; y: number; says: Record<string, any> };

interface ChartOptions {
  /** What the chart is called for those who do not see it. */
  label: string;
  /** Values of the spec's params; what the spec has no param for is left out. */
  signals?: Record<string, any>;
  /** The colour of the dark theme for each of the light theme. */
  dark?: Record<string, string>;
  /** What the reader calls models. */
  /** In place of the spec's own. */
  height?: number;
  /** The colours and the order that the reader chose for models, by the names on the page. */
  look?: { colours: Record<string, string>, order: string[] };
  /** What is on axes of numbers without a title. */
  quantity?: string;
  renderer?: "svg" | "canvas";
  /** Whether a mark under the pointer says what it is. */
  tips?: boolean;
  /** Called when a mark is pressed, with its row and type. */
  press?: (datum: any, mark: string) => void;
}

// Journeys.

type Token = { text: number; position: number; token: string; id: number; special: boolean; followed: boolean };
/** Its key is the layer, or "final". */
type Place = { key: string; site: string; layer: number; depth: number };
type Neighbour = { place: number; id: number; token: string; cosine: number | null; distance: number | null };
type Site = "path" | "attention";
type SideName = "a" | "b";
type Journey = import("./journey.js").Journey;
/** What is chosen on one side of a comparison, or alone. */
type Side = { journey: string; model: string; checkpoint: string; layer: string; token: Token; data: Journey };
/** What is chosen for both sides. */
type Shared = { site: Site; measure: "cosine" | "distance"; positions: string; heat: string; last: string; texts: string; zoom: string };
/** How a model is drawn. */
type Style = { model: string; light: string; dark: string; dash: number[]; shape: string; baseline?: boolean };
/** What the figures of the page are given. */
interface App {
  shared: Shared;
  sides: { a: Side; b: Side | null };
  styleOf: (model: string) => Style;
  /** Whether there is a side B. */
  comparing: boolean;
  /** A, and B where there is one. */
  both: Side[];
  /** The column of ranks by the chosen measure. */
  rank: string;
  /** The models of side A's journey, each at the checkpoint of its side or at its last one. */
  others: Journey[];
  /** Chooses something on a side or for both; focus is the data-key of the element that has it then. */
  choose: (change: any, side?: SideName | null, focus?: string | null) => Promise<void>;
}
/** The token of a profile, in one model. */
type Profile = { data: Journey; token: Token; label: string; side?: SideName; style: Style | null };
/** A place of a journey, and where a token is there. */
type PathPoint = { key: string; x: number; y: number };
/** The path of one token; weight: 3 chosen, 2 the same word in another text, 1 followed, 0 in the background. */
type Way = { name: string; hue: string; weight: 0 | 1 | 2 | 3; points: PathPoint[] };
/** Reach of both axes; pixels of one unit. */
type Frame = { x: [number, number]; y: [number, number]; scale: number };
type TokenWay = Way & { text: number; position: number; own?: Token };
/** A journey in one checkpoint, and the name of the part with its rows. */
type Entry = { journey: string; model: string; checkpoint: string; part: string };

// Figures.

type Figure = { element: HTMLElement; title: string; name: string };
/** What a search finds. */
type Hit = { title: string; about: string; words: string; href: string };
