// ---------------------------------------------------------------- the explorer of journeys

explorers.journeys = async () => {
  const stage = document.getElementById("journeys");
  const { steps } = await part(explorer.entries[0].part);
  stage.append(...new Set(columnsOf(steps).token).values().map(token => tokenNode(token)));
};
